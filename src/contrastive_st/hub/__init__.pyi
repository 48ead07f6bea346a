from .soup import model_soup as model_soup
